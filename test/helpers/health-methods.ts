import { loadSync, type MethodDefinition, type ServiceDefinition } from '@grpc/proto-loader';

interface Status {
  readonly status: string;
}

/** The methods of `grpc.health.v1.Health` for a client, with statuses as strings. */
export const healthMethods = loadSync('grpc/health/v1/health.proto', { enums: String, includeDirs: ['proto'] })[
  'grpc.health.v1.Health'
] as ServiceDefinition & {
  readonly Check: MethodDefinition<{ readonly service: string }, Status>;
  readonly Watch: MethodDefinition<{ readonly service: string }, Status>;
  readonly List: MethodDefinition<object, { readonly statuses: Readonly<Record<string, Status>> }>;
}; // as the file defines it
