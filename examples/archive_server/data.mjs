// Bookings, records and a log, generated from their numbers: the same in every run.

const GUESTS = ["Ada Lovelace", "Alan Turing", "Grace Hopper", "Edsger Dijkstra", "Barbara Liskov", "Donald Knuth", "Radia Perlman"];
const STATUS = ["confirmed", "pending", "cancelled"];
const CITIES = ["Lisbon", "Porto", "Faro", "Braga", "Évora", "Coimbra"];
const pick = (choices, number) => choices[number % choices.length];
const day = (number) => `2026-${String((number % 12) + 1).padStart(2, "0")}-${String((number % 28) + 1).padStart(2, "0")}`;

const brief = (number) => ({
  id: `BK-${String(number).padStart(4, "0")}`,
  guest: pick(GUESTS, number * 3),
  status: pick(STATUS, number),
  city: pick(CITIES, number * 5),
  checkIn: day(number),
  nights: (number % 9) + 1,
  total: ((number % 9) + 1) * (60 + (number % 40)),
});

export const bookings = (count) => Array.from({ length: count }, (_, number) => brief(number));

export const records = (count) => Array.from({ length: count }, (_, id) => ({ id, name: `record ${id}`, value: id * id, at: day(id) }));

export function booking(id) {
  const number = Number(id.replace(/\D/g, "")) || 0;
  const note = (at) => `Note ${at}: the guest of ${id} asked about the ${pick(["lift", "view", "breakfast", "garage"], at)} again. We told them what stands in the house rules, and that the ${pick(["terrace", "pool", "garden"], at)} opens at eight. They were content with that answer.`;
  return {
    ...brief(number),
    price: { base: 60 + (number % 40), cleaning: 45, tax: 12.5, currency: "EUR" },
    guests: GUESTS.map((name, at) => ({ name, email: `guest${at}@example.org`, arrives: day(number + at) })),
    notes: Array.from({ length: 40 }, (_, at) => note(at)).join("\n"),
    history: Array.from({ length: 60 }, (_, at) => ({ at: `${day(at)}T10:${String(at).padStart(2, "0")}:00Z`, by: pick(GUESTS, at), change: pick(STATUS, at), etag: `${number}-${at}-f00ba4` })),
  };
}

export function log(lines) {
  const all = [];
  for (let line = 0; all.length < lines; line++) {
    const time = new Date(Date.UTC(2026, 0, 1, 0, 0, line)).toISOString();
    if (line % 997 === 500) {
      all.push(`${time} ERROR [worker-${line % 4}] payment ${line} was declined: card expired`, "    at charge (payments.js:88:13)", "    at settle (bookings.js:41:7)");
    } else {
      all.push(`${time} INFO [worker-${line % 4}] request ${line} took ${(line * 37) % 250} ms`);
    }
  }
  return all.slice(0, lines).join("\n");
}
