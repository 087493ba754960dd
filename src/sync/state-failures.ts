import { toMirrorError } from '../model/errors.ts';
import type { PassContext } from './ports.ts';

/**
 * Calls the state store, and reports what fails in it: that costs requests later, so it does not fail the pass.
 * @returns the fallback when it failed
 */
export async function tolerateStateFailure<T>(
  emit: PassContext['emit'],
  call: () => Promise<T>,
  fallback: T,
): Promise<T> {
  try {
    return await call();
  } catch (error) {
    const { code, message, hint } = toMirrorError(error);
    emit({ name: 'state.failed', code, message, hint: hint ?? null });
    return fallback;
  }
}
