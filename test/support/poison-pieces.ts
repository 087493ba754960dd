import { ReceiveBuffers } from '../../src/mirror/upstream/connections.ts';

/** Overwrites each piece of a body as it is given back: who gives one back too early reads nonsense, and not only now and then. */
const POISON = 0xdb;

type GiveBack = (this: ReceiveBuffers, piece: Uint8Array) => void;

const giveBack: GiveBack = Reflect.get(ReceiveBuffers.prototype, 'giveBack');

ReceiveBuffers.prototype.giveBack = function poison(this: ReceiveBuffers, piece) {
  giveBack.call(this, piece);
  piece.fill(POISON);
};
