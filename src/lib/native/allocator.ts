import { declare, openLibc } from './library.ts';

/** The parameter of `mallopt(3)` for how many arenas there are at most (malloc.h of glibc). */
const M_ARENA_MAX = -8;

/**
 * Has all threads of this process allocate from two arenas, where the C library has several. Each thread would have its own otherwise, and
 * keep there whatever lies between what others use: 10 MB in all.
 */
export function shareArenas(): void {
  declare(openLibc(), 'int mallopt(int param, int value)')?.(M_ARENA_MAX, 2);
}

/**
 * Binds `malloc_trim(3)`: what the C library keeps of memory that was freed goes back to the system. It does nothing where the library has
 * no such call, as musl.
 */
export function bindTrim(): () => void {
  const trim = declare(openLibc(), 'int malloc_trim(size_t pad)');
  return () => void trim?.(0);
}
