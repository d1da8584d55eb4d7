"""Only for the compiled part, which setup.cfg can't declare; optional: no compiler, no harm."""

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            "extender.model._names",
            ["extender/model/_names.c"],
            extra_compile_args=["-O3"],
            optional=True,
            py_limited_api=True,
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
