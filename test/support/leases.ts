import { bindNativeCalls } from '../../src/lib/native/file-calls.ts';
import { layoutOf } from '../../src/mirror/store/layout.ts';
import { acquireLease, type Lease, releaseLease } from '../../src/mirror/store/leases.ts';

type InDirectory = { readonly directory: string };

/** Takes a lease; publishing waits for it. */
export function takeLease({ directory }: InDirectory, durationMs = 60_000): Promise<Lease> {
  const request = { holder: 'a test', durationMs, signal: AbortSignal.timeout(250_000) };
  return acquireLease(layoutOf(directory), bindNativeCalls(), request, Date.now);
}

export function endLease({ directory }: InDirectory, { id }: Lease): Promise<void> {
  return releaseLease(layoutOf(directory), id);
}
