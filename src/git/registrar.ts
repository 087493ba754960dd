import type { Registrar } from '../service/library.ts';
import { RequestError } from '../service/request-error.ts';
import type { Registry } from './registry.ts';

/** Lets clients create repositories in a registry, which stays the caller's to close. */
export function createRegistrar(registry: Registry): Registrar {
  return {
    create: (name) => registry.create(name),
    connect: () => Promise.reject(new RequestError(501, 'not_implemented', 'not built yet')),
    fetchSoon: () => false,
  };
}
