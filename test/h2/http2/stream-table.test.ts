import { StreamTable } from '../../../src/h2/http2/stream-table.ts';
import { heapBytes } from '../../helpers/heap.ts';

test('the numbers of early ended streams are charged with their memory', () => {
  const CONNECTIONS = 500; // so many that other work in the process hardly matters
  const before = heapBytes();
  const tables = Array.from({ length: CONNECTIONS }, () => {
    const table = new StreamTable();
    for (let id = 1; id < 6_000; id += 2) table.endedEarly(id);
    return table;
  });
  const heldBytes = (heapBytes() - before) / CONNECTIONS;
  for (const table of tables) {
    expect(table.chargedBytes).toBeGreaterThan(heldBytes - 4_096); // the size of an empty table
    expect(table.hasEndedEarly(5_999)).toBe(true);
  }
});
