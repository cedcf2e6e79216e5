/** Stands for the user's name in a read card, so that a card is read once for all users. */
export const userNameMark = '\u{F0000}'
