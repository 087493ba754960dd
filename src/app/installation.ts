import { isDeepStrictEqual } from 'node:util';
import { Places } from '../lib/concurrency/concurrency.ts';
import { ServiceClient } from '../mirror/upstream/client.ts';
import type { ReferenceMemory } from '../mirror/upstream/contents.ts';
import type { KeyMemory } from '../mirror/upstream/keyring.ts';
import { type PauseMemory, Transport } from '../mirror/upstream/transport.ts';
import type { SettingsFor } from '../config/schema.ts';
import { eventFailure } from '../mirror/pass/events.ts';
import type { EventSink } from './events.ts';
import type { State } from '../mirror/state/state.ts';

/** The known facts about one installation of the service; they outlive the process if there is a state to store them in. */
export type InstallationMemory = ReferenceMemory & PauseMemory & KeyMemory;

/** The listeners on the connection to the service. */
interface ConnectionListeners {
  /** The service reported something that the next process must know: it is in the memory now. */
  readonly onWarning?: () => void;
  /** Bytes came. */
  readonly onProgress?: () => void;
  /** Whether to report a key the first time it works, and not only when it fails or works again. */
  readonly reportFirstAccept?: boolean;
}

/**
 * Connections per pull of the setting `concurrency`: up to three slow pulls run in addition to each,
 * and a pull may request several files together. Unneeded connections are not opened.
 */
const CONNECTIONS_A_PULL = 16;

/** Opens a connection to the service. */
export function connect(
  settings: SettingsFor<'service'>,
  memory: InstallationMemory,
  emit: EventSink,
  { onWarning, onProgress, reportFirstAccept = false }: ConnectionListeners = {},
): ServiceClient {
  const { archive, service } = settings;
  const transport = new Transport({
    baseUrl: service.baseUrl,
    keys: (generation) => (generation === 'current' ? service.apiKey : service.apiToken)?.revealAll() ?? [],
    keyMemory: memory,
    reportFirstAccept,
    onKeyEvent: (event) => {
      emit(event);
      onWarning?.();
    },
    timeoutMs: service.timeout,
    connections: settings.concurrency * CONNECTIONS_A_PULL,
    pause: memory,
    ...(onWarning === undefined ? {} : { onPause: onWarning }),
    ...(onProgress === undefined ? {} : { onProgress }),
    onRetry: (error, delayMs, fromBytes) =>
      emit({ name: 'service.retry', ...eventFailure(error), delayMs, fromBytes }),
  });
  return new ServiceClient(settings.shard ?? null, transport, memory, archive.maxSize, service.maxBandwidth);
}

/** The stored facts about the installation at an address; empty if the state is about another one. */
export async function recallInstallation(state: State, baseUrl: string): Promise<InstallationMemory> {
  const installation = await state.read('installation');
  if (installation?.baseUrl !== baseUrl) return { form: null, pausedUntilMs: null, refused: null };
  const { referenceForm, pausedUntilMs, refused } = installation;
  return { form: referenceForm, pausedUntilMs: pausedUntilMs ?? null, refused: refused ?? null };
}

/** Makes a function that saves the facts about the installation, if they changed; one write after the other. */
export function rememberer(baseUrl: string, state: State, memory: InstallationMemory): () => Promise<void> {
  let known: InstallationMemory = { ...memory };
  const writes = new Places(1);
  const write = async (): Promise<void> => {
    const { form, pausedUntilMs = null, refused = null } = memory;
    const found = { form, pausedUntilMs, refused };
    if (isDeepStrictEqual(found, known)) return;
    const { form: referenceForm, ...rest } = found;
    await state.save('installation', { baseUrl, referenceForm, ...rest });
    known = found;
  };
  return () => writes.run(write);
}
