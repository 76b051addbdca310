import type { Json, JsonObject } from '../../../base/json.ts';
import type { Place, Problems } from './problem.ts';
import { parseFlag, parseInteger, type YamlMap, type YamlNode, type YamlScalar } from './yaml.ts';

/**
 * Reads a node's `metadata`, which is sent to the proxy with the answer. Values have their YAML 1.1 types; integers
 * beyond 2^53 become the nearest number. Keys become text: on the first level as written, below it the text of their
 * value (`010: x` is key `8`), as in envoyproxy/ratelimit. Values without a JSON equivalent are added to `problems`.
 *
 * @param place  of the block: `descriptors[2].metadata`
 */
export function readMetadata(map: YamlMap, { file, path }: Place, problems: Problems): JsonObject {
  const wrongKey = (key: YamlNode): void => {
    const message = `error parsing metadata: expected text as a key, got a ${key.kind === 'map' ? 'mapping' : 'list'}`;
    problems.error({ file, line: key.line, path }, message);
  };
  const toObject = (from: YamlMap, keyOf: (key: YamlScalar) => string): JsonObject => {
    const entries = from.entries.flatMap(({ key, value }): (readonly [string, Json])[] => {
      if (key.kind === 'scalar') return [[keyOf(key), toJson(value)]];
      wrongKey(key);
      return [];
    });
    return Object.fromEntries(entries);
  };
  const toJson = (node: YamlNode): Json => {
    if (node.kind === 'map') return toObject(node, (key) => String(toScalar(key)));
    return node.kind === 'list' ? node.items.map(toJson) : toScalar(node);
  };
  return toObject(map, ({ text }) => text);
}

function toScalar({ type, text }: YamlScalar): null | boolean | number | string {
  switch (type) {
    case 'null':
      return null;
    case 'flag':
      return parseFlag(text);
    case 'integer':
      return Number(parseInteger(text));
    case 'float':
      return parseYamlFloat(text.replaceAll('_', ''));
    case 'text':
      return text;
  }
}

function parseYamlFloat(text: string): number {
  const word = text.replace(/^[-+]/, '').toLowerCase();
  if (word === '.nan') return Number.NaN;
  if (word === '.inf') return text.startsWith('-') ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY;
  return Number(text);
}
