import { declare, openLibc } from './library.ts';

/** The `mallopt(3)` parameter for the greatest number of arenas (malloc.h of glibc). */
const M_ARENA_MAX = -8;

/**
 * Makes all threads of this process allocate from two arenas, if the C library has several. Otherwise each thread would have its own,
 * and keep the unused gaps in it: 10 MB in all.
 */
export function shareArenas(): void {
  declare(openLibc(), 'int mallopt(int param, int value)')?.(M_ARENA_MAX, 2);
}

/**
 * Binds `malloc_trim(3)`, which returns freed memory from the C library to the system. It does nothing if the library has
 * no such call, as musl.
 */
export function bindTrim(): () => void {
  const trim = declare(openLibc(), 'int malloc_trim(size_t pad)');
  return () => void trim?.(0);
}
