import { assignments, durationMs, exactly, flag, integer, number, pairs, text } from './kinds.ts';
import { optional, type Rows, setting, withoutEffect } from './row.ts';

/** Where rules come from. */
export const ruleRows = {
  CONFIG_TYPE: setting(
    exactly('FILE', 'GRPC_XDS_SOTW'),
    'FILE',
    'where rules come from: files, or a control plane (xDS, state of the world)',
  ),
  RULES_PATH: setting(
    text,
    'config/rules.yaml',
    'rule file, or directory of .yaml and .yml files at any depth; not read where a runtime directory is set',
  ),
  RUNTIME_ROOT: optional(
    text,
    'root of a runtime directory: rules lie in RUNTIME_SUBDIRECTORY/RUNTIME_APPDIRECTORY below it',
  ),
  RUNTIME_SUBDIRECTORY: optional(text, 'see RUNTIME_ROOT, which is /srv/runtime_data/current where only this is set'),
  RUNTIME_APPDIRECTORY: setting(text, 'config', 'see RUNTIME_ROOT'),
  RUNTIME_IGNOREDOTFILES: setting(flag, 'false', 'leave out files and directories whose name begins with a dot'),
  RUNTIME_WATCH_ROOT: setting(
    flag,
    'true',
    'read files beside RUNTIME_APPDIRECTORY as well whose name begins with that and a dot: config.yaml',
  ),
  MERGE_DOMAIN_CONFIG: setting(flag, 'false', 'files of the same domain are put together instead of refused'),
  RULES_OVERLAY: setting(
    text,
    '',
    'overlay file, or directory of them, which gives rules what their source cannot say (docs/overlay.md); empty: none',
  ),
  FORCE_START_WITHOUT_INITIAL_CONFIG: setting(flag, 'false', 'health is serving before the first rules are there'),

  CONFIG_GRPC_XDS_SERVER_URL: setting(text, 'localhost:18000', 'host:port of the control plane'),
  CONFIG_GRPC_XDS_NODE_ID: setting(text, 'default', 'the node id that the control plane is told'),
  CONFIG_GRPC_XDS_NODE_METADATA: setting(assignments, '', 'metadata of the node: key=value,key=value'),
  CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS: setting(pairs, '', 'headers for the control plane: name:value,name:value'),
  CONFIG_GRPC_XDS_SERVER_USE_TLS: setting(flag, 'false', 'TLS to the control plane'),
  CONFIG_GRPC_XDS_CLIENT_TLS_CERT: setting(text, '', 'file with the certificate to show to the control plane'),
  CONFIG_GRPC_XDS_CLIENT_TLS_KEY: setting(text, '', 'file with its key'),
  CONFIG_GRPC_XDS_SERVER_TLS_CACERT: setting(text, '', 'file with the authority that the control plane must be of'),
  CONFIG_GRPC_XDS_SERVER_TLS_SAN: setting(text, '', 'the name that its certificate must have; empty: its host'),
  XDS_CLIENT_BACKOFF_INITIAL_INTERVAL: setting(durationMs, '10s', 'the wait before the first new try'),
  XDS_CLIENT_BACKOFF_MAX_INTERVAL: setting(durationMs, '60s', 'the longest wait; each is twice the one before'),
  XDS_CLIENT_BACKOFF_JITTER: setting(flag, 'true', 'waits differ at random, so that a fleet does not come at once'),
  XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES: setting(
    integer(1, 2 ** 31 - 1, 'bytes'),
    '4194304',
    'the largest message that is taken from the control plane',
  ),
  XDS_CLIENT_BACKOFF_RANDOM_FACTOR: withoutEffect(number, 'each wait is twice the one before'),
  CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL: withoutEffect(
    durationMs,
    'XDS_CLIENT_BACKOFF_* say when to try again',
  ),
} as const satisfies Rows;
