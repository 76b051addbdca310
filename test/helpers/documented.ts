import { Ajv2020 } from 'ajv/dist/2020.js';

interface OpenApi {
  readonly paths: Readonly<
    Record<
      string,
      Readonly<
        Record<
          string,
          {
            readonly requestBody?: { readonly content: Content };
            readonly responses: Readonly<Record<string, { readonly content: Content }>>;
          }
        >
      >
    >
  >;
  readonly components: { readonly schemas: Readonly<Record<string, object>> };
}
type Content = Readonly<Record<string, { readonly schema: object }>>;

/** The OpenAPI document of a running service, and a check of values against it. */
export interface Documented {
  /** All operations with JSON responses, such as `GET /api/v1/top`. */
  readonly operations: readonly string[];
  /** How an operation's answer differs from the document; empty: it does not. */
  flawsOfAnswer(operation: string, status: number, answer: unknown): readonly string[];
  flawsOfBody(operation: string, body: unknown): readonly string[];
}

/** Reads the document. Undocumented fields count as flaws, although the schemas allow additional properties. */
export async function documentOf(debugPort: number): Promise<Documented> {
  const response = await fetch(`http://127.0.0.1:${debugPort}/api/v1/openapi.json`);
  const document = (await response.json()) as OpenApi; // as the operation declares
  const { schemas } = document.components;
  const { paths }: OpenApi = JSON.parse(
    JSON.stringify(document, (_, part) => ('$ref' in Object(part) ? schemas[part.$ref.split('/').at(-1)] : part)),
  );
  const ajv = new Ajv2020({
    allErrors: true,
    strict: true,
    allowUnionTypes: true,
    strictRequired: false,
    formats: { 'date-time': /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/ },
  });
  const flaws = (schema: object, value: unknown): readonly string[] => {
    const validate = ajv.compile(closed(schema) as object);
    validate(value);
    return (validate.errors ?? []).map(
      ({ instancePath, message, params }) => `${instancePath} ${message} ${JSON.stringify(params)}`,
    );
  };
  const of = (operation: string) => {
    const [method = '', path = ''] = operation.split(' ');
    const found = paths[path]?.[method.toLowerCase()];
    if (!found) throw new Error(`the document has no ${operation}`);
    return found;
  };
  const bodyOf = (operation: string, status: number): object | undefined => {
    const found = operation === '' ? undefined : of(operation).responses[status];
    return found || status === 200 ? found?.content['application/json']?.schema : schemas.Problem;
  };
  const all = Object.entries(paths).flatMap(([path, methods]) =>
    Object.keys(methods).flatMap((method) => (method === 'servers' ? [] : [`${method.toUpperCase()} ${path}`])),
  );
  return {
    operations: all.filter((one) => of(one).responses['200']?.content['application/json']),
    flawsOfAnswer(operation, status, answer) {
      const schema = bodyOf(operation, status);
      return schema ? flaws(schema, answer) : ['the operation answers no JSON'];
    },
    flawsOfBody(operation, body) {
      const schema = of(operation).requestBody?.content['application/json']?.schema;
      return schema ? flaws(schema, body) : ['the operation takes no JSON'];
    },
  };
}

/** The schema with additional properties forbidden. */
function closed(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(closed);
  if (typeof schema !== 'object' || schema === null) return schema;
  const copy = Object.fromEntries(Object.entries(schema).map(([name, value]) => [name, closed(value)]));
  return 'properties' in schema && !('additionalProperties' in schema)
    ? { ...copy, additionalProperties: false }
    : copy;
}
