import type { OpenOperatorPart } from '../../serve/control/part.ts';

/** Reads the history of the service from PROMETHEUS_URL. */
export const openHistory: OpenOperatorPart = async (_options, { prometheus }, { clock }) => {
  if (!prometheus) return {};
  const { PrometheusHistory } = await import('./prometheus-history.ts');
  return { history: new PrometheusHistory({ ...prometheus, clock }) };
};
