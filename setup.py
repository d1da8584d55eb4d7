"""Only for the compiled parts, which setup.cfg can't declare; optional: no compiler, no harm."""

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            f"extender.{name}",
            sources,
            extra_compile_args=["-O3"],
            optional=True,
            py_limited_api=True,
        )
        for name, sources in (
            ("_names", ["extender/_names.c", "extender/_victims.c"]),
            ("_slices", ["extender/_slices.c"]),
            ("_bodies", ["extender/_bodies.c"]),
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
