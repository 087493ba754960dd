import { Secret } from './secret.ts';

/** All secrets that settings hold, as they are now, wherever they stand: to keep them out of every output. */
export function secretsIn(settings: object): string[] {
  return Object.values(settings).flatMap((value: unknown) => {
    if (value instanceof Secret) return [value.reveal()];
    return typeof value === 'object' && value !== null ? secretsIn(value) : [];
  });
}
