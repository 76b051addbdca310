import { type ApiOperation, operationsByPath } from './api.ts';
import type { Schema } from './schema.ts';

/** The OpenAPI document of the operations. */
export function openApiDocument(operations: readonly ApiOperation[], version: string): object {
  const byPath = operationsByPath(operations);
  return {
    openapi: '3.1.0',
    info: {
      title: 'Weir admin API',
      version,
      description: 'Explains answers, shows what matched nothing, and changes counters. Served on the debug port.',
    },
    paths: Object.fromEntries(
      Array.from(byPath, ([path, own]) => [
        path,
        Object.fromEntries(own.map((operation) => [operation.method.toLowerCase(), operationObject(operation)])),
      ]),
    ),
    components: {
      securitySchemes: {
        token: { type: 'http', scheme: 'bearer', description: 'A token of ADMIN_TOKEN.' },
        session: {
          type: 'apiKey',
          in: 'cookie',
          name: 'weir_session_<port>',
          description: 'Set by POST /api/v1/session; changes also take the header x-weir-csrf.',
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

function operationObject(declared: ApiOperation): object {
  const { method, path, summary, need, query, body, answers, produces, consumes } = declared;
  const content = produces
    ? { [produces]: { schema: { type: 'string' } } }
    : { 'application/json': { schema: { type: 'object' } } };
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
          : { 'application/json': { schema: body === 'any' ? { type: 'object' } : body } },
      },
    }),
    responses: {
      200: { description: answers, content },
      '4XX': { description: 'The request is not valid, or not allowed.', ...problem },
      '5XX': { description: 'The request could not be answered.', ...problem },
    },
  };
}

const descriptionOf = ({ description }: Schema) => (description === undefined ? {} : { description });
