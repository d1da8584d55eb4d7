# A supported version. The tests have been run on 3.11 and 3.13 (docs/releasing.md).
ARG PYTHON=3.12
ARG DEBIAN=bookworm

# With a compiler, for extender/model/_names.c; the same Python at the same place as in the
# slim one.
FROM python:${PYTHON}-${DEBIAN} AS build
# The commit's time, so that wheels and compiled files do not change by the clock.
ARG SOURCE_DATE_EPOCH=0
ENV SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH}
WORKDIR /src
COPY image/install.sh image/requirements.lock image/build-requirements.lock image/
COPY setup.py setup.cfg pyproject.toml README.md LICENSE ./
COPY extender extender
# The compiled part is optional elsewhere, not here.
RUN sh image/install.sh python3 /opt/runtimeclass-extender \
    && /opt/runtimeclass-extender/bin/python -I -c 'import extender.model._names'

FROM python:${PYTHON}-slim-${DEBIAN}
COPY --from=build /opt/runtimeclass-extender /opt/runtimeclass-extender
ENV PATH=/opt/runtimeclass-extender/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
# A number, not a name: kubelet checks runAsNonRoot by it.
USER 65532:65532
WORKDIR /
EXPOSE 8888
ENTRYPOINT ["runtimeclass-extender"]
CMD ["serve"]
