import { requestUnitNumbers } from '../../../src/edge/wire/wire.ts';
import { type ModelRequest, type RouteCalls, routeCalls } from '../../../src/parts/envoy/model.ts';
import { COSTS, callText, type FilterRow, recordCalls, USUAL } from '../../helpers/recorded-calls.ts';
import { filterTable, metadataOf, sentCalls } from './filter-table.ts';

type Recorded = Awaited<ReturnType<typeof recordCalls>>;
let recorded: Recorded;
let routes: readonly RouteCalls[];
beforeAll(async () => {
  recorded = await recordCalls(filterTable);
  routes = routeCalls(recorded.configDump);
});

/** What the upstream of `recordCalls` answers. */
const RESPONSE = new Map([
  ['RESPONSE_CODE', '200'],
  ['BYTES_SENT', '4'],
  ...Object.entries(COSTS).map(([name, value]) => [`RESP(${name})`, value] as const),
]);

/** The call that the model predicts for the request of a row. */
function predicted(row: FilterRow, isLate: boolean): readonly string[] {
  const calls = routes.find(({ listener }) => listener === row.title);
  if (!calls) return []; // no route
  const received = new Map<string, string[]>();
  const pseudo = [
    [':path', row.path ?? '/'],
    [':authority', 'shop.example'],
  ] as const;
  for (const [name, value] of [...pseudo, ...(row.headers ?? USUAL)]) {
    const text = Buffer.from(value, 'latin1').toString();
    received.set(name, [...(received.get(name) ?? []), text]);
  }
  const request: ModelRequest = {
    received,
    headers: isLate ? calls.upstreamHeaders(received) : received,
    ...{ address: '127.0.0.1', cluster: 'upstream', sourceCluster: 'edge' },
    metadata: metadataOf(row),
    ...(isLate && { commands: RESPONSE }),
  };
  const sent = calls.silence === undefined ? calls.items.filter((item) => item.isLate === isLate) : [];
  const descriptors = sent.flatMap(({ read }) => read({ request }, calls.ownHits) ?? []);
  if (descriptors.length === 0) return [];
  return [
    callText({
      domain: calls.domain,
      hits_addend: 0,
      descriptors: descriptors.map(({ entries, hits, requestLimit }) => ({
        entries,
        hits_addend: { value: Math.abs(hits) },
        is_negative_hits: hits < 0,
        limit:
          requestLimit && 'limit' in requestLimit
            ? {
                requests_per_unit: requestLimit.limit.limit.requestsPerUnit,
                unit: requestUnitNumbers[requestLimit.limit.label.unit as keyof typeof requestUnitNumbers],
                unit_multiplier: null,
              }
            : null,
      })),
    }),
  ];
}

test.each(filterTable.map((row) => [row.title, row] as const))('the model agrees with Envoy on %s', (title, row) => {
  const [early, late] = (sentCalls[title] ?? ['not in the table']).map((one) => (one === undefined ? [] : [one]));
  const expected = { early: early ?? [], late: late ?? [] };
  const { status: _, ...sent } = recorded.calls.get(title) ?? { status: 0 };
  expect(sent).toEqual(expected);
  expect({ early: predicted(row, false), late: predicted(row, true) }).toEqual(expected);
});
