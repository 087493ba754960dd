import { getCACertificates, setDefaultCACertificates } from 'node:tls';

let isDone = false;

/**
 * Trusts the authorities of this machine for TLS, beside those that Node brings and those of NODE_EXTRA_CA_CERTS: most companies have their own.
 * It reads them once, before the first connection: that takes a fifth of a second, which commands without TLS save.
 */
export function trustSystemAuthorities(): void {
  if (isDone) return;
  isDone = true;
  setDefaultCACertificates([...new Set([...getCACertificates('default'), ...getCACertificates('system')])]);
}
