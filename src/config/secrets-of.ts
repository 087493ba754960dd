import type { SettingsFor } from './schema.ts';
import { secretsIn } from './secret.ts';

/** The secrets as they are now, to keep them out of every output: also the password alone of the store's address. */
export function secretsOf(settings: SettingsFor<never>): string[] {
  const { state } = settings;
  const passwords = state.store === 'sqlite' ? [] : passwordOf(state.address.reveal());
  return [...secretsIn(settings), ...passwords];
}

/** The password in a store's address, as it stands there and as it is meant. */
function passwordOf(address: string): string[] {
  const password = URL.parse(address)?.password ?? '';
  return password === '' ? [] : [password, decodeURIComponent(password)];
}
