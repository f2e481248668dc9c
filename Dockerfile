# A CPU image with the command line: docker build -t lrcssm . && docker run --rm -v "$PWD:/work" lrcssm train my-data.csv
FROM python:3.12-slim AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN pip install --no-cache-dir build && python -m build --wheel --outdir /dist

FROM python:3.12-slim
COPY --from=build /dist /dist
RUN pip install --no-cache-dir /dist/*.whl && rm -r /dist \
    && useradd --create-home lrcssm
USER lrcssm
WORKDIR /work
ENTRYPOINT ["lrcssm"]
CMD ["--help"]
