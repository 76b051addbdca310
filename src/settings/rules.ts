import { durationMs, flag, integer, Mismatch, number, type Parse, pairs, text } from './kinds.ts';
import { emptyText, off, optional, type Rows, setting, withoutEffect } from './row.ts';

/** One of these words, case-sensitive. */
const exactly =
  <const C extends string>(...choices: readonly C[]): Parse<C> =>
  (written) =>
    choices.find((one) => one === written) ?? new Mismatch(`${choices.join(' or ')}, in capitals`);

/** The source of the rules. */
export const ruleRows = {
  CONFIG_TYPE: setting(
    exactly('FILE', 'GRPC_XDS_SOTW'),
    'FILE',
    'source of the rules: files, or a control plane (xDS, state of the world)',
  ),
  RULES_PATH: setting(
    text,
    'config/rules.yaml',
    'rule file, or directory of .yaml and .yml files at any depth; if the default does not exist in the working directory, a file of the package is used; ignored if a runtime directory is set',
  ),
  RUNTIME_ROOT: optional(
    text,
    'root of a runtime directory: rules are in RUNTIME_SUBDIRECTORY/RUNTIME_APPDIRECTORY below it',
  ),
  RUNTIME_SUBDIRECTORY: optional(
    text,
    'see RUNTIME_ROOT, which is /srv/runtime_data/current if only this variable is set',
  ),
  RUNTIME_APPDIRECTORY: setting(text, 'config', 'see RUNTIME_ROOT'),
  RUNTIME_IGNOREDOTFILES: off('ignore files and directories whose name begins with a dot'),
  RUNTIME_WATCH_ROOT: setting(
    flag,
    'true',
    'also read files beside RUNTIME_APPDIRECTORY whose names begin with its name and a dot, such as config.yaml',
  ),
  MERGE_DOMAIN_CONFIG: off('merge files with the same domain instead of refusing them'),
  RULES_OVERLAY: emptyText(
    'overlay file, or a directory of them, which adds to rules what their source cannot express (docs/overlay.md); empty: none',
  ),
  FORCE_START_WITHOUT_INITIAL_CONFIG: off('health is serving before the first rules are loaded'),

  CONFIG_GRPC_XDS_SERVER_URL: setting(text, 'localhost:18000', 'host:port of the control plane'),
  CONFIG_GRPC_XDS_NODE_ID: setting(text, 'default', 'node id sent to the control plane'),
  CONFIG_GRPC_XDS_NODE_METADATA: setting(pairs('='), '', 'metadata of the node: key=value,key=value'),
  CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS: setting(
    pairs(':'),
    '',
    'additional headers for the control plane: name:value,name:value',
  ),
  CONFIG_GRPC_XDS_SERVER_USE_TLS: off('use TLS for the control plane'),
  CONFIG_GRPC_XDS_CLIENT_TLS_CERT: emptyText('file with the client certificate for the control plane'),
  CONFIG_GRPC_XDS_CLIENT_TLS_KEY: emptyText('file with the key of the client certificate'),
  CONFIG_GRPC_XDS_SERVER_TLS_CACERT: emptyText('file with the CA of the control plane; empty: the system CAs'),
  CONFIG_GRPC_XDS_SERVER_TLS_SAN: emptyText('name required in the certificate of the control plane; empty: its host'),
  XDS_CLIENT_BACKOFF_INITIAL_INTERVAL: setting(durationMs, '10s', 'delay before the first retry'),
  XDS_CLIENT_BACKOFF_MAX_INTERVAL: setting(durationMs, '60s', 'maximum delay; each is twice the previous one'),
  XDS_CLIENT_BACKOFF_JITTER: setting(
    flag,
    'true',
    'shorten delays at random, so that a fleet does not reconnect simultaneously',
  ),
  XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES: setting(
    integer(1, 2 ** 31 - 1, 'bytes'),
    '4194304',
    'maximum size of a message from the control plane',
  ),
  XDS_CLIENT_BACKOFF_RANDOM_FACTOR: withoutEffect(number, 'each delay is twice the previous one'),
  CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL: withoutEffect(durationMs, 'XDS_CLIENT_BACKOFF_* define the delays'),
} as const satisfies Rows;
