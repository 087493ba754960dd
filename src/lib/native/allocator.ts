import { declare, openLibc } from './library.ts';

/**
 * Binds `malloc_trim(3)`: what the C library keeps of memory that was freed goes back to the system. It does nothing where the library has
 * no such call, as musl.
 */
export function bindTrim(): () => void {
  const trim = declare(openLibc(), 'int malloc_trim(size_t pad)');
  return () => void trim?.(0);
}
