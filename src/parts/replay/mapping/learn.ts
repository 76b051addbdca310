import { present } from '../../../base/group.ts';
import { printableJson } from '../../../base/printable.ts';
import { counted } from '../../../base/texts.ts';
import { fieldKind, headerAliases, type LogFields, toText } from '../readers/fields.ts';
import type { LogFormatName } from '../readers/format-names.ts';
import { parseTimeMs } from '../readers/times.ts';

/** Maximum distinct values counted per field, above which `>` is shown. */
const MAX_VALUES = 10_000;
/** Maximum number of fields; a log has dozens. */
const MAX_FIELDS = 200;
const SHOWN_CHARACTERS = 40;

/** Statistics of one field of a log. */
interface FieldFigures {
  readonly values: Set<string>;
  present: number;
  readonly example: string;
}

/** Learns from the lines of a log which of its fields are useful in a mapping. */
export class LogSample {
  readonly #fields = new Map<string, FieldFigures>();
  lines = 0;

  add(fields: LogFields): void {
    this.lines++;
    for (const [name, value] of Object.entries(fields)) {
      const text = toText(value);
      if (text === undefined) continue;
      const known = this.#fields.get(name);
      if (known) {
        known.present++;
        if (known.values.size <= MAX_VALUES) known.values.add(text);
      } else if (this.#fields.size < MAX_FIELDS)
        this.#fields.set(name, { values: new Set([text]), present: 1, example: text });
    }
  }

  /** Renders a valid first mapping with comments on each field. */
  mapping(source: string, format: LogFormatName): string {
    const actions = this.#actions();
    if (actions.length === 0)
      actions.push(['no known field in the log; see the table above', 'generic_key: { descriptor_value: all }']);
    return `${[
      `# Learned from ${comment(source)}: ${counted(this.lines, 'request')}, format ${format}.`,
      '# Each list of actions makes one descriptor, as in the rate_limits of a route of Envoy. Keep those that',
      '# your proxy has, and delete the others.',
      '#',
      ...this.#table(),
      '',
      'domain: demo',
      ...this.#fieldNames(),
      'rate_limits:',
      ...actions.flatMap(([what, action]) => [`  - actions: # ${what}`, `      - ${action}`]),
    ].join('\n')}\n`;
  }

  /** Actions with comments on them. */
  #actions(): (readonly [what: string, action: string])[] {
    const headerAction = (header: string, key: string, more = ''): string =>
      `request_headers: { header_name: ${header}, descriptor_key: ${key}${more} }`;
    return present([
      this.#has((name) => fieldKind(name) === 'address') && [
        '("remote_address", the address of the client)',
        'remote_address: {}',
      ],
      this.#has((name) => headerAliases(':path').includes(name)) && [
        '("path", the path without its query)',
        headerAction('":path"', 'path', ", regex: '^([^?]*)'"),
      ],
      ...this.#headers().map((name): readonly [string, string] => {
        const key = printableJson(descriptorKey(name));
        return [`(${key}, the field ${comment(name)})`, headerAction(printableJson(name), key)];
      }),
    ]);
  }

  #table(): readonly string[] {
    const width = Math.max(...[...this.#fields.keys()].map((name) => name.length), 5);
    const rows = [...this.#fields]
      .toSorted(([, a], [, b]) => b.values.size - a.values.size)
      .map(([name, { values, present: lines, example }]) => {
        const count = values.size > MAX_VALUES ? `>${MAX_VALUES}` : String(values.size);
        const share = `${Math.round((100 * lines) / this.lines)} %`;
        return `#   ${comment(name).padEnd(width)}  ${count.padStart(8)}  ${share.padStart(7)}  ${comment(example)}`;
      });
    return [`#   ${'field'.padEnd(width)}  ${'values'.padStart(8)}  ${'present'.padStart(7)}  example`, ...rows];
  }

  /** Fields that must be configured, such as a time field without a standard name. */
  #fieldNames(): readonly string[] {
    if (this.#has((name) => fieldKind(name) === 'time')) return [];
    const time = [...this.#fields].find(
      ([, { example }]) => (parseTimeMs(example) ?? 0) > 0 && !/^\d{1,9}$/.test(example),
    );
    return time ? ['fields:', `  time: ${printableJson(time[0])}`] : [];
  }

  /** Client fields that limits may count by, whose values vary and repeat. */
  #headers(): readonly string[] {
    return [...this.#fields]
      .filter(([name, { values, present: count }]) => {
        const isClient = /user|client|tenant|account|api.?key|plan|subject|org|customer/i.test(name);
        const isOther = /agent/i.test(name) || fieldKind(name) !== undefined;
        return isClient && !isOther && values.size > 1 && values.size < count;
      })
      .map(([name]) => name);
  }

  #has(isMeant: (name: string) => boolean): boolean {
    return [...this.#fields.keys()].some(isMeant);
  }
}

const descriptorKey = (field: string): string =>
  field
    .toLowerCase()
    .replace(/^(x|http)[-_]/, '')
    .replaceAll(/[^a-z0-9]+/g, '_') || 'field';

/** A text from the log, shortened and on one line, for a comment. */
function comment(text: string): string {
  const plain = text.replaceAll(/[^\x20-\x7e\u00a0-\u{10ffff}]|[\p{Zl}\p{Zp}\p{Cs}\p{Bidi_Control}]/gu, '?');
  return plain.length <= SHOWN_CHARACTERS ? plain : `${plain.slice(0, SHOWN_CHARACTERS)}…`;
}
