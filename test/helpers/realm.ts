import { types } from 'node:util';

/**
 * Jest gives each test file its own `Error`, so errors of Node's modules are not `instanceof` it. This import makes
 * `instanceof Error` hold for them too, as it does when the service runs outside of jest.
 */
Object.defineProperty(Error, Symbol.hasInstance, {
  value(this: unknown, thrown: unknown): boolean {
    return this === Error ? types.isNativeError(thrown) : Function.prototype[Symbol.hasInstance].call(this, thrown);
  },
});
