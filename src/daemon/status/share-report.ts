import { type ShareReport, writeShareReport } from '../../mirror/store/documents.ts';
import { hostname } from 'node:os';
import { MirrorError } from '../../lib/errors/errors.ts';
import { isLeftAlone, isWell } from '../../app/target-status.ts';
import { eventFailure } from '../../mirror/pass/events.ts';
import type { Mirror } from '../../app/open-mirror.ts';
import type { ReadMirror } from './mirror-status.ts';

/**
 * Reports the state of an instance's share to all others, after a pass: in the directory and, if it is remote, in the state.
 * A failed report fails nothing else: the others see that it is missing.
 * @param readMirror reads the state of the mirror
 * @param failure why the whole pass failed; null if it did not
 */
export async function reportShare(
  readMirror: ReadMirror,
  { store, state }: Pick<Mirror, 'store' | 'state'>,
  failure: unknown,
): Promise<void> {
  const { shard } = store;
  if (shard === null) return;
  try {
    const { policy, nowMs, targets } = await readMirror();
    const own = targets.filter(({ state }) => !isLeftAlone(state));
    const times = own.flatMap(({ verifiedAtMs }) => verifiedAtMs ?? []);
    // Unknown if any target was never verified.
    const isKnown = own.length > 0 && times.length === own.length;
    const report: ShareReport = {
      ...shard,
      directoryId: store.id,
      host: hostname(),
      writtenAtMs: nowMs,
      failure: failure === null ? null : eventFailure(failure).message,
      maxStalenessMs: policy.maxStalenessMs,
      targets: own.length,
      notWell: own.filter((target) => !isWell(target)).length,
      oldestVerifiedAtMs: isKnown ? times.reduce((one, other) => Math.min(one, other)) : null,
    };
    await writeShareReport(store, report);
    await state.saveShare(report);
  } catch (error) {
    if (!(error instanceof MirrorError)) throw error;
  }
}
