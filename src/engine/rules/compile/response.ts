import { fillTemplate, isJsonType, listPlaceholders, placeholders } from '../match/template.ts';
import type { RuleResponse } from '../match/tree.ts';
import type { Block } from '../read/block.ts';
import { MEDIA_TYPE } from '../read/format.ts';
import { type Problems, shown } from '../read/problem.ts';

const MAX_BODY_CHARACTERS = 8_192;
const MAX_HEADERS = 16;
const MAX_HEADER_CHARACTERS = 1_024;

/** Headers that follow from the body, or belong to the connection. */
const headersOfProxies = ['connection', 'content-length', 'content-type', 'transfer-encoding', 'upgrade'];

/** Reads the `response` of a node. Undefined if it has none, or an invalid one: `problems` has the reason then. */
export function buildResponse({ values }: Block<'node'>, problems: Problems): RuleResponse | undefined {
  const { response } = values;
  if (!response) return undefined;
  const before = problems.all.length;
  const headers = readHeaders(response, problems);
  const { body } = response.values;
  const contentType = response.values.content_type ?? chooseType(body);
  if (!new RegExp(MEDIA_TYPE).test(contentType))
    problems.error(
      response.place('content_type'),
      `content_type must be a media type such as application/json, got '${shown(contentType)}'`,
    );
  else if (body !== undefined) checkBody(response, { body, contentType }, problems);
  else if (!isJsonType(contentType) && !response.invalid.has('body'))
    problems.error(
      response.place('content_type'),
      `without a body, content_type must be of JSON, since the response is a problem document; got '${shown(contentType)}'`,
    );
  if (response.invalid.size > 0 || problems.all.length > before) return undefined;
  return { ...(body !== undefined && { body }), contentType, headers };
}

function chooseType(body: string | undefined): string {
  if (body === undefined) return 'application/problem+json';
  return jsonProblem(body) === undefined ? 'application/json' : 'text/plain; charset=utf-8';
}

function checkBody(
  { place }: Block<'response'>,
  { body, contentType }: { readonly body: string; readonly contentType: string },
  problems: Problems,
): void {
  if (body.length > MAX_BODY_CHARACTERS)
    problems.error(place('body'), `body must have at most ${MAX_BODY_CHARACTERS} characters, got ${body.length}`);
  for (const name of listPlaceholders(body))
    if (!placeholders.some((one) => one === name))
      problems.error(
        place('body'),
        `body may have the placeholders ${placeholders.map((one) => `{${one}}`).join(', ')}, got '{${shown(name)}}'`,
      );
  const problem = isJsonType(contentType) ? jsonProblem(body) : undefined;
  if (problem !== undefined)
    problems.error(place('body'), `body must be JSON, as its content_type ${contentType} says: ${shown(problem)}`);
}

/** Why a body is not JSON. */
function jsonProblem(body: string): string | undefined {
  try {
    JSON.parse(fillTemplate(body, { retry_after: '0', limit: '', rule: '' }, true));
    return undefined;
  } catch (error) {
    return String(error instanceof Error ? error.message : error);
  }
}

function readHeaders({ values, place }: Block<'response'>, problems: Problems): RuleResponse['headers'] {
  const report = (message: string): void => problems.error(place('headers'), message);
  const written = Object.entries(values.headers ?? {});
  if (written.length > MAX_HEADERS) report(`headers may have at most ${MAX_HEADERS} entries, got ${written.length}`);
  const names = new Map<string, string>();
  return written.map(([key, value]) => {
    const name = key.toLowerCase();
    const same = names.get(name);
    if (same !== undefined) report(`headers must differ in more than case, got ${shown(same)} and ${shown(key)}`);
    names.set(name, key);
    if (!/^[\w!#$%&'*+.^`|~-]+$/.test(key)) report(`headers must have names such as Location, got '${shown(key)}'`);
    else if (headersOfProxies.includes(name) || name.startsWith(':'))
      report(`headers cannot set ${name}${name === 'content-type' ? ': use content_type' : ', which proxies set'}`);
    const text = typeof value === 'string' || typeof value === 'number' ? String(value) : undefined;
    if (text === undefined || text.length > MAX_HEADER_CHARACTERS || !/^[\x20-\x7e]*$/.test(text))
      report(
        `headers must have values of at most ${MAX_HEADER_CHARACTERS} characters of printable ASCII; that of ${shown(key)} is another one`,
      );
    return { key, value: text ?? '' };
  });
}
