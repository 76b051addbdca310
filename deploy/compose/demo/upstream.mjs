// The protected upstream: answers every request.
import { createServer } from 'node:http';

createServer((_request, response) => response.end('hello from upstream\n')).listen(8000);
for (const signal of ['SIGTERM', 'SIGINT']) process.once(signal, () => process.exit());
