/** Markup that is safe to insert into a page. Only `html` and `joined` create it. */
export interface Markup {
  readonly markup: string;
}

type Part = Markup | string | number | undefined | false | readonly Part[];

/** An HTML template: escapes texts, inserts markup unchanged, and concatenates lists. */
export function html(strings: TemplateStringsArray, ...parts: readonly Part[]): Markup {
  let markup = strings[0] ?? '';
  for (let at = 0; at < parts.length; at++) markup += rendered(parts[at]) + (strings[at + 1] ?? '');
  return { markup };
}

function rendered(part: Part): string {
  if (part === undefined || part === false) return '';
  if (typeof part === 'string') return escaped(part);
  if (typeof part === 'number') return String(part);
  return 'markup' in part ? part.markup : part.map(rendered).join('');
}

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

const escaped = (text: string): string => text.replaceAll(/[&<>"']/g, (one) => ENTITIES[one] ?? one);

/** Maximum characters of a shown text from a caller. */
const SHOWN_CHARACTERS = 120;

/** A caller's text, isolated from the direction of the text around it, without control characters, and shortened. */
export function foreign(text: string): Markup {
  const cut = text.length <= SHOWN_CHARACTERS ? text : `${text.slice(0, SHOWN_CHARACTERS)}…`;
  return html`<bdi>${cut.replaceAll(/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu, '\ufffd')}</bdi>`;
}
