$stdout.sync = true # unbuffered, so that output is in the log at once, under uWSGI too

# The functions that a task's key `do` may name. Their result decides what happens to the task's file.
module Tasks
  module_function

  # spoold enqueue do=greet to=world
  def greet(task)
    letter = task['body'] ? ", your letter has #{task['body'].bytesize} bytes" : ''
    say("hello #{task['to']}#{letter}")
    UWSGI::SPOOL_OK # done: the file is removed
  end

  # spoold enqueue do=greet_all to=ann,bob
  def greet_all(task)
    task['to'].split(',').each { |name| UWSGI.spool({ 'do' => 'greet', 'to' => name }) }
    UWSGI::SPOOL_OK
  end

  # spoold enqueue do=fetch
  def fetch(task)
    @tries ||= Hash.new(0)
    raise 'no network yet' if (@tries[task['spooler_task_name']] += 1) == 1 # the file is kept, and the task runs again

    say('fetched at the second attempt')
    UWSGI::SPOOL_OK
  end

  def say(text)
    puts "ruby: #{text}"
  end
end

module UWSGI
  module_function

  def spooler(task)
    case task['do']
    when 'greet', 'greet_all', 'fetch' then Tasks.public_send(task['do'], task)
    else UWSGI::SPOOL_IGNORE
    end
  end
end

# Calls the function every 2 seconds, in one spooler process.
UWSGI.register_signal(1, 'spooler', proc { Tasks.say("it is #{Time.now}") })
UWSGI.add_timer(1, 2)
