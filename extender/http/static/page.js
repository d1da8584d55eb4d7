// Fetches the page again every few seconds and replaces the sections that have changed.
// Without it everything works; the page then shows the moment it was opened.
"use strict";

const seconds = Number(document.documentElement.dataset.refresh);
const note = document.getElementById("refreshed");
let failed = false;

function say(text) {
  if (note && note.textContent !== text) {
    note.textContent = text;
  }
}

function placeOf(section, element) {
  const all = [...section.querySelectorAll("a, button, input, summary, [tabindex]")];
  return all.indexOf(element);
}

function replace(section, next) {
  if (section.innerHTML === next.innerHTML) {
    return;
  }
  const place = placeOf(section, document.activeElement);
  const open = [...section.querySelectorAll("details")].map((each) => each.open);
  section.innerHTML = next.innerHTML;
  section.querySelectorAll("details").forEach((each, number) => {
    each.open = open[number] ?? each.open;
  });
  if (place >= 0) {
    const all = section.querySelectorAll("a, button, input, summary, [tabindex]");
    if (all[place]) {
      all[place].focus({ preventScroll: true });
    }
  }
}

async function refresh() {
  if (!document.hidden) {
    try {
      const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
      if (!answer.ok) {
        throw new Error(`the service answers ${answer.status}`);
      }
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      for (const section of document.querySelectorAll("[data-live]")) {
        const next = page.getElementById(section.id);
        if (next) {
          replace(section, next);
        }
      }
      if (failed) {
        failed = false;
        say("The service answers again.");
      }
    } catch (error) {
      if (!failed) {
        failed = true;
        say(`This page is no longer up to date: ${error.message}. It tries again every ${seconds} s.`);
      }
    }
  }
  setTimeout(refresh, seconds * 1000);
}

if (document.querySelector("[data-live]")) {
  setTimeout(refresh, seconds * 1000);
}
