"""Workload slices: pods of elastic jobs are ungated
up to the count of the newest admitted slice.
"""
