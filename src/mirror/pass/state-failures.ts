import { eventFailure } from './events.ts';
import type { PassContext } from './context.ts';

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
    emit({ name: 'state.failed', ...eventFailure(error) });
    return fallback;
  }
}
