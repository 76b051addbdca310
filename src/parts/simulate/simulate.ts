import type { Mapping } from '../replay/mapping/mapping.ts';
import type { RecordedRequest, RecordedTraffic } from '../replay/request.ts';
import { Random } from './random.ts';
import type { ScenarioName } from './scenario-names.ts';
import { scenarios } from './scenarios.ts';

/** The start of every scenario: 2026-01-05, a Monday, at 0:00 UTC. */
export const START_MS = 1_767_571_200_000;
const BATCH_REQUESTS = 1_024;

/** Default mapping, with the descriptors of envoy.yaml and the client's address. */
export const SIMULATED_MAPPING = `domain: demo
rate_limits:
  - actions: [{ request_headers: { header_name: x-user, descriptor_key: user } }]
  - actions: [{ request_headers: { header_name: ":path", descriptor_key: path } }]
  - actions: [{ request_headers: { header_name: ":path", descriptor_key: path } }, { remote_address: {} }]
  - actions: [{ remote_address: {} }]
label: { field: label, allow: allow, refuse: refuse }
`;

/** Default rules for a scenario. */
export const SIMULATED_RULES = `domain: demo
descriptors:
  - key: user
    rate_limit: { unit: minute, requests_per_unit: 60 }
  - key: remote_address
    rate_limit: { unit: minute, requests_per_unit: 120 }
  - key: path
    value: /login
    descriptors:
      - key: remote_address
        rate_limit: { unit: hour, requests_per_unit: 10 }
`;

/** The requests of a scenario, ordered by time; equal seeds give equal requests. */
export async function* simulated(name: ScenarioName, seed: number, mapping: Mapping): RecordedTraffic {
  const sent = [...scenarios[name](new Random(seed))].sort((one, other) => one.atMs - other.atMs);
  const requests = sent.flatMap(({ atMs, user, address, path, label, status = 200 }): RecordedRequest | [] => {
    const time = START_MS + Math.floor(atMs);
    const headers = { 'x-user': user, ':method': 'GET', ':path': path };
    const fields = { time, ...headers, remote_address: address, status, label };
    const request = mapping.request(fields);
    return typeof request === 'object' ? request : []; // no action has a value
  });
  for (let from = 0; from < requests.length; from += BATCH_REQUESTS) yield requests.slice(from, from + BATCH_REQUESTS);
}
