import type { Logger } from '../observe/log.ts';
import type { RuleBook } from '../rules/book.ts';
import type { Settings } from '../settings.ts';
import type { DiscoveredRulesOptions } from '../xds/book.ts';
import type { ControlPlane, ControlPlaneTls } from '../xds/client.ts';
import { start } from './cannot-start.ts';

interface ControlPlaneRules extends Omit<DiscoveredRulesOptions, 'onUp' | 'onDown'> {
  /** Names the control plane in messages. */
  readonly description: string;
}

/** @throws CannotStart if a header is not valid for gRPC, or a certificate file cannot be used */
export function openControlPlane(
  settings: Settings,
  serverUrl: string,
  { description, ...options }: ControlPlaneRules,
  log: Logger,
): Promise<RuleBook> {
  const controlPlane: ControlPlane = {
    serverUrl,
    nodeId: settings.CONFIG_GRPC_XDS_NODE_ID,
    nodeMetadata: settings.CONFIG_GRPC_XDS_NODE_METADATA,
    additionalHeaders: settings.CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS,
    tls: settings.CONFIG_GRPC_XDS_SERVER_USE_TLS ? tlsOf(settings) : undefined,
    backOff: {
      initialMs: settings.XDS_CLIENT_BACKOFF_INITIAL_INTERVAL,
      maxMs: settings.XDS_CLIENT_BACKOFF_MAX_INTERVAL,
      jitter: settings.XDS_CLIENT_BACKOFF_JITTER,
    },
    maxMessageBytes: settings.XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES,
  };
  let wasDown = false;
  return start('CONFIG_GRPC_XDS_*', `${description} cannot be used`, async () => {
    const { openDiscoveredRules } = await import('../xds/book.ts'); // loads a gRPC library, which no other setting needs
    return openDiscoveredRules(controlPlane, {
      ...options,
      onUp() {
        if (wasDown) log.warn(`connected to ${description} again`);
        else log.info(`connected to ${description}`);
      },
      onDown(reason) {
        wasDown = true;
        log.error(`no rules from ${description}: ${reason}; retrying`);
      },
    });
  });
}

function tlsOf(settings: Settings): ControlPlaneTls {
  const given = (text: string): string | undefined => (text === '' ? undefined : text);
  return {
    caFile: given(settings.CONFIG_GRPC_XDS_SERVER_TLS_CACERT),
    certFile: given(settings.CONFIG_GRPC_XDS_CLIENT_TLS_CERT),
    keyFile: given(settings.CONFIG_GRPC_XDS_CLIENT_TLS_KEY),
    serverName: given(settings.CONFIG_GRPC_XDS_SERVER_TLS_SAN),
  };
}
