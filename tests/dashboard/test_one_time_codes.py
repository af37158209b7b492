from pykueue.dashboard.one_time_codes import LIFE_SECONDS, OneTimeCodes


def test_a_code_is_redeemed_once():
    codes = OneTimeCodes()
    code = codes.create("token")
    assert [codes.redeem(code), codes.redeem(code)] == ["token", None]


def test_a_code_expires():
    now = 0.0
    codes = OneTimeCodes(lambda: now)
    code = codes.create("token")
    now = LIFE_SECONDS + 1
    assert codes.redeem(code) is None


def test_a_code_does_not_contain_the_token():
    assert "secret-token" not in OneTimeCodes().create("secret-token")


def test_codes_of_one_user_do_not_end_those_of_another():
    codes = OneTimeCodes()
    link = codes.create("admin")
    own = [codes.create("jane", "jane") for _ in range(2000)]
    assert codes.redeem(link) == "admin"
    assert [codes.redeem(own[0]), codes.redeem(own[-1])] == [None, "jane"]
