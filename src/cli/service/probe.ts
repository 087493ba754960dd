import { setTimeout as sleep } from 'node:timers/promises';

import { RETRIES } from '../../mirror/upstream/transport.ts';
import type { SettingsFor } from '../../config/schema.ts';
import { MirrorError } from '../../lib/errors/errors.ts';
import { scrubbed } from '../../lib/text/scrub.ts';
import { ERASE_LINE, say, type TerminalText } from '../../lib/text/terminal-text.ts';
import { probe, type ProbeOptions, type ProbeReport } from '../../probe/probe.ts';
import { renderReport } from '../../probe/report.ts';
import { loudness } from '../frame/loudness.ts';
import { bold, tell } from '../frame/output.ts';
import { secretsOf } from '../../config/secret.ts';
import { abortOnSignal } from '../../lib/process/signals.ts';
import { standardError, standardOutput } from '../../lib/process/streams.ts';
import { packageVersion } from '../../lib/process/version.ts';

/** How a service is probed. */
export interface ProbeCommandOptions {
  /** Also asks without a key, and with one that is made up. */
  readonly withWrongKey: boolean;
  /** Most requests in all. */
  readonly maxRequests: number;
}

/** A report with the program that made it. */
type SignedReport = ProbeReport & { readonly program: string };

/** Greatest archive or file that is downloaded. */
const MAX_DOWNLOAD_BYTES = 64_000_000;

/** How many repositories, branches of each, and files of each branch are looked into. */
const SAMPLE = 2;

/** Asks the service of the settings how it behaves. It reads only. @throws MirrorError as `probe` */
export async function probeService(
  settings: SettingsFor<'service'>,
  { withWrongKey, maxRequests }: ProbeCommandOptions,
): Promise<SignedReport> {
  const { service } = settings;
  const { signal, stopListening } = abortOnSignal();
  const progress = startProgress(maxRequests);
  try {
    const report = await probe({
      baseUrl: service.baseUrl,
      credential: (generation) =>
        (generation === 'current' ? service.apiKey : service.apiToken)?.reveal() ?? null,
      timeoutMs: service.timeout,
      signal,
      maxRequests,
      maxPauseMs: RETRIES.maxDelayMs,
      pause: (delayMs) => waitFor(delayMs, signal),
      onProgress: progress.report,
      wrong: withWrongKey ? {} : null,
      sample: SAMPLE,
      maxDownloadBytes: MAX_DOWNLOAD_BYTES,
    });
    return scrubbed({ program: `workbook-mirror ${packageVersion()}`, ...report }, secretsOf(settings));
  } finally {
    progress.end();
    stopListening();
  }
}

async function waitFor(delayMs: number, signal: AbortSignal): Promise<void> {
  try {
    await sleep(delayMs, undefined, { signal });
  } catch (cause) {
    throw new MirrorError('pass.abandoned', 'The probe was abandoned.', { cause });
  }
}

/** Says on standard error what is being asked: on a line that is written over where that can be, else once a subject. */
function startProgress(maxRequests: number): {
  readonly report: ProbeOptions['onProgress'];
  readonly end: () => void;
} {
  const isQuiet = loudness() === 'quiet';
  const redraws = standardError.mayRedraw();
  let last = '';
  if (!isQuiet) tell(say`Reading only, at most ${maxRequests} requests, one after the other.`);
  return {
    report: (what, sent) => {
      if (isQuiet) return;
      if (redraws) standardError.write(say`${ERASE_LINE}${sent} ${what}`);
      else if (what !== last) tell(say`Asking about ${what}.`);
      last = what;
    },
    end: () => {
      if (redraws && last !== '') standardError.write(ERASE_LINE);
    },
  };
}

/** The report for a person. */
export function describeProbe(report: SignedReport): TerminalText {
  const lines = renderReport(report, (text) => bold(text, standardOutput));
  return say`Probe of a service by ${report.program}\n\n${lines}`;
}
