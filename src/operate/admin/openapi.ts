import { type ApiOperation, operationsByPath } from './api.ts';
import type { Schema } from './schema.ts';

/** Response bodies, and request bodies that operations parse themselves, by method and path. */
interface OperationSchemas {
  readonly answerSchemas: Readonly<Record<string, object>>;
  readonly bodySchemas: Readonly<Record<string, object>>;
}

/** The OpenAPI document of the operations. */
export function openApiDocument(
  operations: readonly ApiOperation[],
  version: string,
  schemas: OperationSchemas,
): object {
  const byPath = operationsByPath(operations);
  return {
    openapi: '3.1.0',
    info: {
      title: 'Weir admin API',
      version,
      description: 'Explains answers, lists unmatched descriptors, and changes counters. Served on the debug port.',
    },
    paths: Object.fromEntries(
      Array.from(byPath, ([path, own]) => [
        path,
        Object.fromEntries(
          own.map((operation) => [operation.method.toLowerCase(), operationObject(operation, schemas)]),
        ),
      ]),
    ),
    components: {
      securitySchemes: {
        token: { type: 'http', scheme: 'bearer', description: 'A token of ADMIN_TOKEN.' },
        session: {
          type: 'apiKey',
          in: 'cookie',
          name: 'weir_session_<port>',
          description: 'Set by POST /api/v1/session; changes also require the header x-weir-csrf.',
        },
      },
      schemas: { Problem: problemSchema },
    },
  };
}

/** @see https://www.rfc-editor.org/rfc/rfc9457 */
const problemSchema = {
  type: 'object',
  required: ['type', 'title', 'status', 'detail'],
  properties: {
    type: { type: 'string' },
    title: { type: 'string' },
    status: { type: 'integer' },
    detail: { type: 'string' },
    errors: {
      type: 'array',
      items: {
        type: 'object',
        required: ['at', 'detail'],
        properties: { at: { type: 'string' }, detail: { type: 'string' } },
      },
    },
  },
} as const;

function operationObject(declared: ApiOperation, { answerSchemas, bodySchemas }: OperationSchemas): object {
  const { method, path, summary, need, query, body, answers, produces, consumes } = declared;
  const name = `${method} ${path}`;
  const content = produces
    ? { [produces]: { schema: { type: 'string' } } }
    : { 'application/json': { schema: answerSchemas[name] ?? ANY_OBJECT } };
  const parameters = Object.entries(query.properties).map(([name, schema]) => ({
    name,
    in: 'query',
    required: query.required.includes(name),
    schema,
    ...descriptionOf(schema),
  }));
  const problem = { content: { 'application/problem+json': { schema: { $ref: '#/components/schemas/Problem' } } } };
  return {
    operationId: `${method.toLowerCase()}${path.replace('/api/v1', '').replace(/[/.](\w)/g, (_, letter: string) => letter.toUpperCase())}`,
    summary,
    ...(need !== 'open' && { security: [{ token: [] }, { session: [] }, ...(need === 'read' ? [{}] : [])] }),
    ...(parameters.length > 0 && { parameters }),
    ...(body && {
      requestBody: {
        required: true,
        content: consumes
          ? { [consumes]: { schema: { type: 'string' } } }
          : { 'application/json': { schema: body === 'any' ? (bodySchemas[name] ?? ANY_OBJECT) : body } },
      },
    }),
    responses: {
      200: { description: answers, content },
      '4XX': { description: 'The request is not valid, or not allowed.', ...problem },
      '5XX': { description: 'The request could not be answered.', ...problem },
    },
  };
}

const ANY_OBJECT = { type: 'object' };

const descriptionOf = ({ description }: Schema) => (description === undefined ? {} : { description });
