import type { RuleBookOptions } from '../../engine/rules/reload/book.ts';
import type { Logger } from '../../operate/observe/log.ts';
import { start } from '../../serve/parts/start-up.ts';
import type { Settings } from '../../settings/settings.ts';

/** The rules of a control plane; undefined if the settings name none. */
export function discoveredRules({ origin, controlPlane }: Settings['rules'], log: Logger) {
  if (!('controlPlane' in origin)) return undefined;
  const from = `the control plane at ${origin.controlPlane}`;
  return {
    from,
    open: (loading: Omit<RuleBookOptions, 'pollIntervalMs'>) =>
      start('CONFIG_GRPC_XDS_*', `${from} cannot be used`, async () => {
        const { openDiscoveredRules } = await import('./book.ts'); // loads a gRPC library
        const plane = { serverUrl: origin.controlPlane, ...controlPlane };
        return openDiscoveredRules(plane, { ...loading, ...logConnection(from, log) });
      }),
  };
}

function logConnection(description: string, log: Logger) {
  let wasDown = false;
  return {
    onUp() {
      if (wasDown) log.warn(`connected to ${description} again`);
      else log.info(`connected to ${description}`);
    },
    onDown(reason: string) {
      wasDown = true;
      log.error(`no rules from ${description}: ${reason}; retrying`);
    },
  };
}
