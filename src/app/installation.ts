import { isDeepStrictEqual } from 'node:util';
import { Places } from '../lib/concurrency/concurrency.ts';
import { closing } from '../lib/concurrency/shared-work.ts';
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

/** Uses the service once, without anything known about it. */
export function withService<T>(
  settings: SettingsFor<'service'>,
  use: (client: ServiceClient) => Promise<T>,
  emit: EventSink = () => {},
): Promise<T> {
  return closing(connect(settings, { referenceForm: null }, emit), use);
}

/** One installation of the service, and what is known about it. */
export interface Installation {
  readonly baseUrl: string;
  readonly memory: InstallationMemory;
  /** Saves the facts if they changed; one write after the other. */
  readonly remember: () => Promise<void>;
}

/** The installation at an address; nothing is known about it if the state is about another one. */
export async function recallInstallation(state: State, baseUrl: string): Promise<Installation> {
  const stored = await state.read('installation');
  const before = stored?.baseUrl === baseUrl ? stored : null;
  const memory: InstallationMemory = { referenceForm: null, ...before };
  let known = { ...memory };
  const write = async (): Promise<void> => {
    const found = { ...memory };
    if (isDeepStrictEqual(found, known)) return;
    await state.save('installation', { ...found, baseUrl });
    known = found;
  };
  const writes = new Places(1);
  return { baseUrl, memory, remember: () => writes.run(write) };
}
