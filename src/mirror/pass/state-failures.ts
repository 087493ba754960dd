/**
 * Calls the state store, whose failures cost requests later and do not fail the pass: the store reports them.
 * @returns the fallback when it failed
 */
export async function tolerateStateFailure<T>(call: () => Promise<T>, fallback: T): Promise<T> {
  try {
    return await call();
  } catch {
    return fallback;
  }
}
