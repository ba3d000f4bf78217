"""boto3's sessions and clients, made as this package needs them; its errors about credentials."""

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sagemaker_vllm._config import EndpointConfig
from sagemaker_vllm._errors import AuthenticationError, ConfigurationError
from sagemaker_vllm._version import __version__

if TYPE_CHECKING:
    import boto3.session

USER_AGENT = f"sagemaker-vllm/{__version__}"


_loaders: dict[str | None, Any] = {}
_loaders_lock = threading.Lock()


def make_session(config: EndpointConfig) -> "boto3.session.Session":
    """Make a boto3 session of our own: the shared default session is not thread-safe.

    Sessions share the loader of botocore's data files, whose parsing is nearly all that a client
    costs: 5 ms in place of 80.
    """
    import boto3.session  # takes longer than the whole core
    import botocore.session
    from botocore.exceptions import BotoCoreError, ProfileNotFound
    from botocore.loaders import create_loader

    profile_name = config.credentials_profile_name
    try:
        core = botocore.session.Session(profile=profile_name)
        data_path = core.get_config_variable("data_path")
        with _loaders_lock:
            if data_path not in _loaders:
                _loaders[data_path] = create_loader(data_path)
            core.register_component("data_loader", _loaders[data_path])
            session = boto3.session.Session(
                aws_access_key_id=config.aws_access_key_id,
                aws_secret_access_key=config.aws_secret_access_key,
                aws_session_token=config.aws_session_token,
                region_name=config.region_name,
                profile_name=profile_name,
                botocore_session=core,
            )
            # Every boto3 session adds its folder.
            paths = _loaders[data_path].search_paths
            paths[:] = dict.fromkeys(paths)
    except ProfileNotFound as error:
        source = f"credentials_profile_name={profile_name!r}" if profile_name else "AWS_PROFILE"
        message = f"{source}: {error}. Name a profile of the shared AWS files."
        raise ConfigurationError(message) from error
    except BotoCoreError as error:
        message = f"The shared AWS files cannot be read: {error}"
        raise ConfigurationError(message) from error
    return session


def make_client(session: "boto3.session.Session", config: EndpointConfig) -> Any:
    """Make a `sagemaker-runtime` client that leaves retries to us."""
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, InvalidRegionError, NoRegionError

    settings = Config(
        connect_timeout=config.connect_timeout,
        read_timeout=config.timeout,
        max_pool_connections=config.max_concurrency,
        # Ours is the only retry loop: botocore's would repeat a paid generation after a time-out.
        retries={"mode": "standard", "total_max_attempts": 1},
        tcp_keepalive=True,
        user_agent_extra=USER_AGENT,
    )
    ca_bundle(session)
    try:
        return session.client(
            "sagemaker-runtime", endpoint_url=config.endpoint_url, config=settings
        )
    except NoRegionError as error:
        message = (
            "region_name is missing: pass region_name='us-east-1' or set the environment variable "
            "AWS_DEFAULT_REGION, or a region in the profile."
        )
        raise ConfigurationError(message) from error
    except InvalidRegionError as error:
        message = f"region_name={session.region_name!r} is not a region, such as 'us-east-1'."
        raise ConfigurationError(message) from error
    except BotoCoreError as error:
        if is_credentials_error(error):
            raise
        message = f"botocore cannot work with its settings: {error}"
        raise ConfigurationError(message) from error
    except ValueError as error:
        message = f"endpoint_url={config.endpoint_url!r} is not a URL: {error}."
        raise ConfigurationError(message) from error


def ca_bundle(session: "boto3.session.Session") -> str | None:
    """Return the file of trusted certificates that AWS_CA_BUNDLE or the profile names.

    Raises:
        ConfigurationError: There is no such file.
    """
    bundle: str | None = session._session.get_config_variable("ca_bundle")  # noqa: SLF001  # boto3 has no public way
    if bundle and not Path(bundle).exists():
        message = f"AWS_CA_BUNDLE={bundle!r} (or ca_bundle of the profile) is not a file."
        raise ConfigurationError(message)
    return bundle or None


def is_credentials_error(error: BaseException) -> bool:
    """Tell whether credentials cannot be found, read or refreshed."""
    from botocore import exceptions as boto

    kinds = (
        boto.CredentialRetrievalError,
        boto.NoCredentialsError,
        boto.PartialCredentialsError,
        boto.SSOError,
        boto.TokenRetrievalError,
    )
    # botocore says so in this way of a source that gave credentials that had expired.
    is_stale = isinstance(error, RuntimeError) and "refreshed credentials" in str(error)
    return is_stale or isinstance(error, kinds)


def credentials_missing(error: BaseException, config: EndpointConfig) -> AuthenticationError:
    """Make the error for credentials that cannot be found, read or refreshed."""
    return AuthenticationError(
        f"No usable AWS credentials for endpoint {config.endpoint_name!r} "
        f"({type(error).__name__}): set them in the environment, choose a profile with "
        "credentials_profile_name, run with a role, or sign in again.",
        error_code=type(error).__name__,
        endpoint_name=config.endpoint_name,
    )
