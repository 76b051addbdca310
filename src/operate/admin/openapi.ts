import { fields, type JsonShape } from '../../base/shape.ts';
import { namedShapes, rateLimitRequest, rateLimitResponse } from '../../edge/wire/shapes.ts';
import { partPaths, partShapes } from '../../parts/answers.ts';
import { answers } from '../answers/all.ts';
import { type ApiOperation, operationsByPath } from './api.ts';

type Documented = Omit<ApiOperation, 'answer'>;

/** An operation for callers without gRPC, which is served on another port. */
interface CallerOperation {
  readonly summary: string;
  readonly body: JsonShape<unknown>;
  readonly answer: JsonShape<unknown>;
  /** Absent: it refuses nothing. */
  readonly refusal?: string;
}

const callerPaths: Readonly<Record<string, CallerOperation>> = {
  '/json': {
    summary: 'decides a request and counts its hits',
    body: rateLimitRequest,
    answer: rateLimitResponse,
    refusal: 'a limit is exceeded',
  },
  ...partPaths,
};

/** The operations for callers without gRPC. */
export const callerOperations: readonly Documented[] = Object.entries(callerPaths).map(
  ([path, { summary, refusal }]) => ({
    path,
    method: 'POST',
    summary: `${summary}, on the HTTP port (\`PORT\`, 8080)`,
    need: 'open',
    query: fields({}),
    body: 'any',
    answers: refusal === undefined ? 'The answer.' : `The answer with status 200, or 429 if ${refusal}.`,
  }),
);

const shapes: Readonly<Record<string, JsonShape<unknown>>> = answers;

/** The OpenAPI document of the operations. */
export function openApiDocument(operations: readonly ApiOperation[], version: string) {
  const byPath = operationsByPath(operations);
  return {
    openapi: '3.1.0',
    info: {
      title: 'Weir admin API',
      version,
      description: 'Explains answers, lists unmatched descriptors, and changes counters. Served on the debug port.',
    },
    paths: withReferences({
      ...Object.fromEntries(callerOperations.map((operation) => [operation.path, callerPath(operation)])),
      ...Object.fromEntries(
        Array.from(byPath, ([path, own]) => [
          path,
          Object.fromEntries(own.map((operation) => [operation.method.toLowerCase(), operationObject(operation)])),
        ]),
      ),
    }),
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
      schemas: Object.fromEntries(Object.entries(schemas).map(([name, schema]) => [name, withReferences(schema)])),
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

/** The schemas that others refer to: generators name a type after each. */
const schemas: Readonly<Record<string, object>> = { Problem: problemSchema, ...namedShapes, ...partShapes };
const schemaNames = new Map(Object.entries(schemas).map(([name, schema]) => [schema, name]));

/** A copy in which each of these schemas is a reference, except the outermost one. */
const withReferences = (value: object): object =>
  JSON.parse(
    JSON.stringify(value, (key, part) => {
      const name = key === '' ? undefined : schemaNames.get(part);
      return name === undefined ? part : { $ref: `#/components/schemas/${name}` };
    }),
  );

function operationObject(declared: Documented) {
  const { method, path, summary, need, query, body, answers: description, produces, consumes } = declared;
  const content = produces
    ? { [produces]: { schema: { type: 'string' } } }
    : { 'application/json': { schema: shapes[`${method} ${path}`] } };
  const parameters = Object.entries(query.properties ?? {}).map(([name, schema]) => ({
    name,
    in: 'query',
    required: query.required?.includes(name),
    schema,
    ...withDescription(schema),
  }));
  const problem = { content: { 'application/problem+json': { schema: problemSchema } } };
  return {
    operationId: `${method.toLowerCase()}${path.replace('/api/v1', '').replace(/[/.](\w)/g, (_, letter: string) => letter.toUpperCase())}`,
    summary,
    tags: [callerPaths[path] ? 'callers' : 'admin'],
    ...(need !== 'open' && { security: [{ token: [] }, { session: [] }, ...(need === 'read' ? [{}] : [])] }),
    ...(parameters.length > 0 && { parameters }),
    ...(body && {
      requestBody: {
        required: true,
        content: consumes
          ? { [consumes]: { schema: { type: 'string' } } }
          : { 'application/json': { schema: body === 'any' ? rateLimitRequest : body } },
      },
    }),
    responses: {
      200: { description, content },
      '4XX': { description: 'The request is not valid, or not allowed.', ...problem },
      '5XX': { description: 'The request could not be answered.', ...problem },
    },
  };
}

const withDescription = ({ description }: JsonShape<unknown>) => (description === undefined ? {} : { description });

const ofFailure = { content: { 'text/plain': { schema: { type: 'string' } } } };

const callerServer = {
  url: 'http://{host}:{port}',
  description: 'The HTTP server for callers: HOST and PORT.',
  variables: { host: { default: 'localhost' }, port: { default: '8080' } },
};

function callerPath(operation: Documented) {
  const { body, answer, refusal } = callerPaths[operation.path] as CallerOperation; // as listed from these paths
  const content = { 'application/json': { schema: answer } };
  return {
    servers: [callerServer],
    post: {
      ...operationObject(operation),
      requestBody: { required: true, content: { 'application/json': { schema: body } } },
      responses: {
        200: { description: refusal === undefined ? 'The answer.' : 'The request passes.', content },
        ...(refusal !== undefined && { 429: { description: `Refused: ${refusal}.`, content } }),
        '4XX': {
          description: 'The request is not valid, or not allowed, or cannot be decided.',
          headers: {
            'x-weir-reason': { description: 'The reason.', schema: { type: 'string' } },
            'grpc-status': { description: 'The status code of gRPC.', schema: { type: 'integer' } },
          },
          ...ofFailure,
        },
        '5XX': { description: 'The request could not be answered.', ...ofFailure },
      },
    },
  };
}
