"""Properties are about results, not about the speed of a loaded machine."""

from hypothesis import settings

settings.register_profile("pykueue", deadline=None)
settings.load_profile("pykueue")
