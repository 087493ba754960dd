import { createClient, type ServiceClient } from '../client/client.ts';
import type { PauseMemory } from '../client/pause.ts';
import type { ReferenceMemory } from '../client/references.ts';
import { createTransport } from '../client/transport.ts';
import type { SettingsFor } from '../config/schema.ts';
import type { EventSink } from '../model/events.ts';
import type { State } from '../state/state.ts';
import { tolerateStateFailure } from '../sync/state-failures.ts';

/** What is known of an installation; outlives the process where there is a state to keep it in. */
export type InstallationMemory = ReferenceMemory & PauseMemory;

/** Who is told of what happens on the way to the service. */
interface ConnectionListeners {
  /** The service has asked for no requests for a while, which the memory holds now. */
  readonly onPause?: () => void;
  /** Bytes came. */
  readonly onProgress?: () => void;
}

/** Opens the way to the service. */
export function connect(
  settings: SettingsFor<'service'>,
  memory: InstallationMemory,
  emit: EventSink,
  listeners: ConnectionListeners = {},
): ServiceClient {
  const { service } = settings;
  const { apiToken } = service;
  const transport = createTransport({
    baseUrl: service.baseUrl,
    credentials: {
      current: () => service.apiKey.reveal(),
      v1: apiToken === undefined ? null : () => apiToken.reveal(),
    },
    connectTimeoutMs: service.connectTimeout,
    headersTimeoutMs: service.headersTimeout,
    stallTimeoutMs: service.stallTimeout,
    connections: settings.concurrency + 2,
    retries: service.retries,
    maxRetryDelayMs: service.maxRetryDelay,
    maxAnswerBytes: service.maxAnswerSize,
    pause: memory,
    ...listeners,
    onRetry: ({ code, message, hint }, delayMs) =>
      emit({ name: 'service.retry', code, message, hint: hint ?? null, delayMs }),
  });
  return createClient(transport, memory, { maxArchiveBytes: settings.archive.maxSize });
}

/** What is remembered of the installation at an address; nothing of another one. */
export async function recallInstallation(
  state: State,
  baseUrl: string,
  emit: EventSink,
): Promise<InstallationMemory> {
  const installation = await tolerateStateFailure(emit, () => state.installation(), null);
  if (installation?.baseUrl !== baseUrl) return { form: null, pausedUntilMs: null };
  return { form: installation.referenceForm, pausedUntilMs: installation.pausedUntilMs ?? null };
}

/** Makes a function that writes down what is known of the installation, if it changed; one write after the other. */
export function rememberer(
  baseUrl: string,
  state: State,
  memory: InstallationMemory,
  emit: EventSink,
): () => Promise<void> {
  let known = { ...memory };
  let written = Promise.resolve();
  const write = async (): Promise<void> => {
    const { form, pausedUntilMs } = memory;
    if (form === known.form && pausedUntilMs === known.pausedUntilMs) return;
    const found = { baseUrl, referenceForm: form, pausedUntilMs: pausedUntilMs ?? null };
    await tolerateStateFailure(emit, () => state.saveInstallation(found), undefined);
    known = { ...memory, form, pausedUntilMs: found.pausedUntilMs };
  };
  return () => {
    written = written.then(write);
    return written;
  };
}
