import type { FastifyReply } from 'fastify'

/**
 * Sends a text when the turn of the event loop ends, together with the other texts of that turn. A client with several requests
 * in flight then gets their replies right after each other, and is not woken for each. If each text were sent immediately, a
 * cached page of plants would cost 22 % more CPU time (docs/performance.md).
 */
export function sendAtEndOfTurn(reply: FastifyReply, text: string): void {
  setImmediate(send, reply, text)
}

function send(reply: FastifyReply, text: string): void {
  reply.send(text)
}
