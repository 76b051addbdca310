import type { Json, JsonObject } from '../../../base/json.ts';
import type { Place, Problems } from './problem.ts';
import { flagOf, integerOf, type YamlMap, type YamlNode, type YamlScalar } from './yaml.ts';

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
  const objectOf = (from: YamlMap, keyOf: (key: YamlScalar) => string): JsonObject => {
    const entries = from.entries.flatMap(({ key, value }): (readonly [string, Json])[] => {
      if (key.kind === 'scalar') return [[keyOf(key), jsonOf(value)]];
      wrongKey(key);
      return [];
    });
    return Object.fromEntries(entries);
  };
  const jsonOf = (node: YamlNode): Json => {
    if (node.kind === 'map') return objectOf(node, (key) => String(scalarOf(key)));
    return node.kind === 'list' ? node.items.map(jsonOf) : scalarOf(node);
  };
  return objectOf(map, ({ text }) => text);
}

function scalarOf({ type, text }: YamlScalar): null | boolean | number | string {
  switch (type) {
    case 'null':
      return null;
    case 'flag':
      return flagOf(text);
    case 'integer':
      return Number(integerOf(text));
    case 'float':
      return floatOf(text.replaceAll('_', ''));
    case 'text':
      return text;
  }
}

function floatOf(text: string): number {
  const word = text.replace(/^[-+]/, '').toLowerCase();
  if (word === '.nan') return Number.NaN;
  if (word === '.inf') return text.startsWith('-') ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY;
  return Number(text);
}
