"""A store of objects on this machine."""

import pytest


@pytest.fixture
def object_store(monkeypatch):
    """The files of an S3 server, by fsspec."""
    server = pytest.importorskip("moto.server")
    fsspec, _ = pytest.importorskip("fsspec"), pytest.importorskip("s3fs")
    running = server.ThreadedMotoServer(port=0)
    running.start()
    try:
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
        monkeypatch.setenv("AWS_ENDPOINT_URL", "http://{}:{}".format(*running.get_host_and_port()))
        monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        fsspec.filesystem("s3").clear_instance_cache()
        yield fsspec.filesystem("s3")
    finally:
        running.stop()
