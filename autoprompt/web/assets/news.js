// News of the runs, over one connection for all tabs: a browser allows six to a host, and there may be 50 tabs.
// The tab that holds the lock listens and tells the others; when it is closed, the lock passes to another one.
"use strict";
const News = (() => {
  const number = (id) => Number(id.slice(id.indexOf("-") + 1));
  const boot = (id) => id.slice(0, id.indexOf("-"));

  // after: the position at which this page was made. take({id, data}): once for each piece of news.
  // say(state): "connected" or "lost".
  function follow(after, take, say) {
    let seen = after;
    const channel = new BroadcastChannel("autoprompt-news");

    function hear(message) {
      if (message.state) return say(message.state);
      if (boot(message.id) === boot(seen) && number(message.id) <= number(seen)) return undefined;
      seen = message.id;
      return take(message.data);
    }

    function tell(message) {
      hear(message);
      channel.postMessage(message);
    }

    function listen() {
      const source = new EventSource("/events?after=" + encodeURIComponent(seen));
      source.addEventListener("hello", () => tell({ state: "connected" }));
      source.addEventListener("error", () => tell({ state: "lost" }));
      source.addEventListener("news", (event) => tell({ id: event.lastEventId, data: JSON.parse(event.data) }));
      return source;
    }

    // What came between the making of this page and the first word on the channel, or while it was asleep.
    async function catchUp() {
      try {
        const answer = await fetch("/news?after=" + encodeURIComponent(seen));
        if (!answer.ok) return;
        for (const { id, data } of await answer.json()) hear({ id, data: JSON.parse(data) });
      } catch {
        say("lost");
      }
    }

    channel.addEventListener("message", (event) => hear(event.data));
    catchUp();
    addEventListener("pageshow", (event) => event.persisted && catchUp());
    document.addEventListener("visibilitychange", () => document.hidden || catchUp());
    if (navigator.locks) {
      navigator.locks.request("autoprompt-news", () => new Promise(() => listen()));
    } else {
      listen();
    }
  }

  return { follow };
})();
