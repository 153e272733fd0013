# A slim image with the command alone:  docker build -t autoprompt .
#   docker run --rm -e OPENAI_API_KEY -v "$PWD:/work" --user "$(id -u):$(id -g)" autoprompt check --config ci.yaml
FROM python:3.12-slim AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY autoprompt autoprompt
# No git in here: the version is given, as `--build-arg VERSION=1.2.3`.
ARG VERSION=0.1.0.dev0
RUN SETUPTOOLS_SCM_PRETEND_VERSION="$VERSION" pip wheel --no-cache-dir --no-deps --wheel-dir /dist .

FROM python:3.12-slim
COPY --from=build /dist /dist
RUN pip install --no-cache-dir /dist/*.whl && rm -r /dist && useradd --create-home --uid 1000 autoprompt
USER 1000
WORKDIR /work
ENTRYPOINT ["autoprompt"]
CMD ["--help"]
