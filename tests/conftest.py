from hypothesis import HealthCheck, settings

# Same examples in every run; a first call may compile with numba.
settings.register_profile(
    "dpbayes", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("dpbayes")
