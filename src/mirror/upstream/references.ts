import { MirrorError } from '../../lib/errors/errors.ts';
import { type Reference, type ReferenceForm, referencesFor } from './reference-forms.ts';
import type { Repository } from './listing.ts';
import { ContentsRefusedError } from './failures.ts';

/** Which form of reference an installation takes: found by trying, remembered, found again when it stops working. */
export interface ReferenceMemory {
  form: ReferenceForm | null;
}

/** What the choice of references works with. */
export interface ReferenceContext {
  /** The form that worked last, for any repository; outlives the process. */
  readonly memory: ReferenceMemory;
  /** The form that last gave a repository's contents, by id: installations may take several, for other repositories. */
  readonly proven: Map<string, ReferenceForm>;
  /** From `countNames`, over all repositories of the last list. */
  readonly nameCounts: () => ReadonlyMap<string, number>;
}

/** What became of asking by one reference. */
type Asked<T> =
  | { readonly kind: 'found'; readonly value: T }
  | { readonly kind: 'absent' }
  | { readonly kind: 'failed'; readonly error: MirrorError };

/** Errors with which an installation may answer a form of reference that it does not take. */
const ERRORS_OF_FORMS: ReadonlySet<string> = new Set([
  'contents.wrong_kind',
  'contents.forbidden',
  'service.wrong_kind',
]);

/** The reference that is the likeliest to be understood; null when there is none that names the repository alone. */
export function bestReference(context: ReferenceContext, repository: Repository): Reference | null {
  const form = context.proven.get(repository.id) ?? context.memory.form;
  return referencesFor(repository, context.nameCounts(), form)[0] ?? null;
}

/**
 * Tries the forms of reference until one finds something. Where none does, a plain absence by the form that worked before
 * counts more than what the others met: a router may take their addresses for pages.
 * @param ask gives null when there is nothing at the reference
 * @throws MirrorError `contents.not_found` when the only form left is a short name that others share
 */
export async function tryReferences<T>(
  context: ReferenceContext,
  repository: Repository,
  absent: T,
  ask: (reference: Reference) => Promise<T | null>,
): Promise<T> {
  const { memory, proven, nameCounts } = context;
  const provenForm = proven.get(repository.id) ?? null;
  const trustedForm = provenForm ?? memory.form;
  const absences = new Set<ReferenceForm>();
  let failure: MirrorError | null = null;
  for (const reference of referencesFor(repository, nameCounts(), trustedForm)) {
    const asked = await askOnce(reference, ask);
    if (asked.kind === 'found') {
      memory.form = reference.form;
      proven.set(repository.id, reference.form);
      return asked.value;
    }
    if (asked.kind === 'absent') absences.add(reference.form);
    else if (reference.form === provenForm && asked.error.code !== 'contents.wrong_kind') throw asked.error;
    else failure ??= asked.error;
  }
  if (failure !== null && !hasForm(absences, provenForm)) throw failure;
  const isShared = (nameCounts().get(repository.name.toLowerCase()) ?? 0) > 1;
  if (isShared && !hasForm(absences, trustedForm)) throw onlyAmbiguous(repository);
  return absent;
}

async function askOnce<T>(
  reference: Reference,
  ask: (reference: Reference) => Promise<T | null>,
): Promise<Asked<T>> {
  try {
    const value = await ask(reference);
    return value === null ? { kind: 'absent' } : { kind: 'found', value };
  } catch (error) {
    // No key is let in: to ask in other forms would be to try it again and again.
    if (!(error instanceof MirrorError) || error instanceof ContentsRefusedError) throw error;
    if (!ERRORS_OF_FORMS.has(error.code)) throw error;
    return { kind: 'failed', error };
  }
}

function hasForm(forms: ReadonlySet<ReferenceForm>, form: ReferenceForm | null): boolean {
  return form !== null && forms.has(form);
}

function onlyAmbiguous(repository: Repository): MirrorError {
  return new MirrorError(
    'contents.not_found',
    `No reference that names ${repository.fullName} alone finds its contents, and the short name ${JSON.stringify(repository.name)} is shared with others.`,
    { hint: 'Rename one of the repositories of that name in the service.' },
  );
}
