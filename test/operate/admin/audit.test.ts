import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { memoryRecords } from '../../../src/engine/backends/records.ts';
import { Audit } from '../../../src/operate/admin/audit.ts';
import { Background } from '../../../src/operate/observe/work-state.ts';
import { smallDisk } from '../../helpers/small-disk.ts';

test('a line that a full disk has cut costs no other line', async () => {
  const disk = smallDisk();
  if (!disk) return;
  try {
    const sink = join(disk.folder, 'audit.log');
    const log = { warn() {}, error() {} };
    const state = new Background({ clock: Date.now, log: log as never }).add('audit_log', 'writing');
    const audit = new Audit({ sink, clock: Date.now, records: memoryRecords(), state });
    const change = (reason: string) =>
      audit.change({ who: 'ann', change: 'forget', reason, what: {}, before: null, after: null }, async () => {});
    await change('number 0');
    disk.fill();
    let written = 1;
    const refused = async (): Promise<boolean> => {
      try {
        await change(`number ${written}`);
      } catch {
        return true;
      }
      written++;
      return false;
    };
    while (!(await refused()));
    disk.free();
    await change('the last');
    const lines = readFileSync(sink, 'utf8').trimEnd().split('\n');
    expect(lines.length).toBeGreaterThanOrEqual(written + 1);
    expect(JSON.parse(lines.at(-1) ?? '')).toMatchObject({ reason: 'the last' });
    expect(JSON.parse(lines[written - 1] ?? '')).toMatchObject({ reason: `number ${written - 1}` });
  } finally {
    disk.remove();
  }
});
