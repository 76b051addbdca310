/**
 * Answers one request, and exports its trace over HTTP to the endpoint in the environment; prints failures. It is a
 * separate program since the exporter uses `import()`, which packages cannot under jest.
 */
import { startTracing } from '../../src/parts/tracing/tracing.ts';
import { callerWith } from './caller.ts';
import { agreeable } from './grpc-server.ts';

const options = { samplingRate: 1, serviceName: 'RateLimit', serviceNamespace: '', serviceInstanceId: '' };
const state = { works() {}, failed: (error: unknown) => console.log(`sending traces is failing: ${error}`) };
const tracing = startTracing({ ...options, protocol: 'http' }, state);
const request = { domain: 'demo', descriptors: [], hits_addend: 0 };
await tracing.service(agreeable).shouldRateLimit(request, callerWith(), () => {});
await tracing.close();
